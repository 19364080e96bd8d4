/**
 * The sidecars that Berth brings, by the name that a workspace gives for them, each with its command: paths below the
 * toolbox. The names stand apart from the schemas, for the supervisor's sake.
 */
export const BUILTIN_SIDECARS = {
  /** A shell in the browser: the program, and the directory that its page's files lie in. */
  terminal: ["bin/node", "supervisor/web-terminal.cjs", "web-terminal"],
} as const satisfies Record<string, readonly [string, ...string[]]>

export type BuiltinSidecar = keyof typeof BUILTIN_SIDECARS
