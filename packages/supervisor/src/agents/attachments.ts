/** Lists a prompt's attachments in its text, for an agent that takes text only. The agent reads the files it needs. */
export const withAttachments = (text: string, paths: readonly string[] = []): string =>
  paths.length === 0 ? text : `${text}\n\nFiles that came with this:\n${paths.join("\n")}`
