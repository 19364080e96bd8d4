/** The sources of one entry of a toolbox. */
export interface ToolboxInput {
  readonly name: string
  readonly version: string
  /** The file in the tree that makes the entry usable. An input without it, or with an empty one, is refused. */
  readonly main: string
  readonly parts: readonly InputPart[]
}

/** A part of an entry. `to` is its path in the tree. */
export type InputPart =
  | { readonly kind: "file"; readonly from: string; readonly to: string }
  /** A directory with all that is in it, except the paths of `without`, relative to it. */
  | {
      readonly kind: "tree"
      readonly from: string
      readonly to: string
      readonly without?: readonly string[]
    }
  | { readonly kind: "text"; readonly text: string; readonly to: string }
  | { readonly kind: "link"; readonly target: string; readonly to: string }
