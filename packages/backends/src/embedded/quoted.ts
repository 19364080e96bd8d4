/** A word of the shell's language that means exactly this text. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
