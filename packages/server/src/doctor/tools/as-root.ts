export const isRoot = (): boolean => process.getuid?.() === 0

/** The command as this user must type it. */
export const asRoot = (command: string, root = isRoot()): string =>
  root ? command : `sudo ${command}`
