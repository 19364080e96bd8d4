/**
 * Checks of values that schemas refine by, where neither a pattern nor a bound says what is allowed. They stand apart
 * from the schemas, so that the supervisor applies the same functions without a schema library. A schema that the
 * supervisor checks refines by these alone.
 */

/** Whether a text has no NUL, at which the kernel would end it. */
export const hasNoNul = (text: string): boolean => !text.includes("\0")

/** Whether a text can be written as UTF-8. One with a lone surrogate cannot. */
export const isWellFormed = (text: string): boolean => text.isWellFormed()

/** Whether the bytes have no NUL. A text that is no base64 passes: the schema's pattern refuses it. */
export const decodesWithoutNul = (base64: string): boolean => {
  try {
    return hasNoNul(atob(base64))
  } catch {
    return true
  }
}

/** Whether an environment variable can have this name. The kernel takes more names than shells do. */
export const namesVariable = (name: string): boolean => name !== "" && !name.includes("=")

/** Whether a command's first word, its program, is not empty. */
export const namesProgram = ([program]: readonly string[]): boolean => program !== ""

/** Whether a message is more than blanks. */
export const hasWords = (text: string): boolean => text.trim() !== "" && hasNoNul(text)

/** Whether a path has no part `.` or `..`, which could lead out of its directory. */
export const hasNoDotParts = (path: string): boolean =>
  !path.split("/").some((part) => part === ".." || part === ".")

/** Whether an http URL names no user. A token may stand in its place. */
export const hasNoUser = (url: string): boolean => !/^https?:[\\/]*[^\\/?#]*@/i.test(url)

/** Whether a URL of any scheme has no password. Its user may be named: ssh needs one. */
export const hasNoPassword = (url: string): boolean => !/^[a-z0-9+.-]+:\/\/[^/]*:[^/]*@/i.test(url)

/** Whether a URL has no control character. A line break would end its line of git's credential protocol. */
export const hasNoControl = (text: string): boolean => !/\p{Cc}/u.test(text)

/** Whether a program cannot take the text for a flag. */
export const startsWithoutDash = (text: string): boolean => !text.startsWith("-")

export const areDifferent = (values: readonly unknown[]): boolean =>
  new Set(values).size === values.length

interface Sidecar {
  readonly name: string
  readonly command?: unknown
  readonly builtin?: unknown
  readonly port?: unknown
  readonly ready?: object | undefined
}

export const runsOneProgram = ({ command, builtin }: Sidecar): boolean =>
  (command === undefined) !== (builtin === undefined)

export const builtinHasPort = ({ builtin, port }: Sidecar): boolean =>
  builtin === undefined || port !== undefined

export const readyHasPort = ({ port, ready }: Sidecar): boolean =>
  port !== undefined || ready === undefined || "line" in ready

export const haveDifferentNames = (sidecars: readonly Sidecar[]): boolean =>
  areDifferent(sidecars.map(({ name }) => name))

export const haveDifferentPorts = (sidecars: readonly Sidecar[]): boolean =>
  areDifferent(sidecars.flatMap(({ port }) => port ?? []))
