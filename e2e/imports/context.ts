import type { Home } from "./home.ts"
import type { Rules } from "./rules.ts"
import type { Tree } from "./tree.ts"

/** The facts about the file whose import is judged. */
export interface Context {
  readonly file: string
  readonly home: Home
  readonly rules: Rules
  readonly tree: Tree
}

export interface Verdict {
  readonly problem?: string | undefined
  /** The file of this project that is imported. */
  readonly target?: string | undefined
}

/** The file of the rules, for messages. */
export const WHERE = "e2e/imports/rules.ts"

export const list = (names: readonly string[]) =>
  names.length === 0 ? "nothing" : names.join(", ")
