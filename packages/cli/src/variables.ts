import { BerthError } from "@berth/protocol/errors"

/** For an option that can be given often. */
export const collect = (value: string, before: readonly string[] = []): string[] => [
  ...before,
  value,
]

/** `NAME=VALUE`, each. */
export const variablesOf = (given: readonly string[] = []): Record<string, string> =>
  Object.fromEntries(
    given.map((text) => {
      const end = text.indexOf("=")
      if (end < 1) throw new BerthError("input.usage", `--env takes NAME=VALUE, not ${text}`)
      return [text.slice(0, end), text.slice(end + 1)]
    }),
  )
