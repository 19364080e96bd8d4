/** Names the files that came with a prompt where it cannot hold them: the agent reads what it needs of them. */
export const withAttachments = (text: string, paths: readonly string[] = []): string =>
  paths.length === 0 ? text : `${text}\n\nFiles that came with this:\n${paths.join("\n")}`
