/**
 * Rules that no pattern and no bound expresses. They stand apart from the schemas, so that the supervisor applies the
 * same functions without a schema library. A schema that the supervisor checks refines by these alone.
 */

/** The kernel ends a text at its first NUL. */
export const hasNoNul = (text: string): boolean => !text.includes("\0")

/** Text with a lone surrogate has no UTF-8. */
export const isWellFormed = (text: string): boolean => text.isWellFormed()

/** Text that is no base64 is left to the pattern. */
export const decodesWithoutNul = (base64: string): boolean => {
  try {
    return hasNoNul(atob(base64))
  } catch {
    return true
  }
}

/** The kernel takes any other name, though no shell does. */
export const namesVariable = (name: string): boolean => name !== "" && !name.includes("=")

export const namesProgram = ([program]: readonly string[]): boolean => program !== ""

export const hasWords = (text: string): boolean => text.trim() !== "" && hasNoNul(text)

export const hasNoDotParts = (path: string): boolean =>
  !path.split("/").some((part) => part === ".." || part === ".")

export const hasNoUser = (url: string): boolean => !/^https?:[\\/]*[^\\/?#]*@/i.test(url)

export const hasNoPassword = (url: string): boolean => !/^[a-z0-9+.-]+:\/\/[^/]*:[^/]*@/i.test(url)

/** A line break would end its line of git's credential protocol. */
export const hasNoControl = (text: string): boolean => !/\p{Cc}/u.test(text)

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
