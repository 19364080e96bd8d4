/**
 * The form of values that a schema accepts, as plain data. A program that must not load the schema library checks
 * values by it. `form-of.ts` makes it from a schema.
 */
export type Form = Plain & { readonly rules?: readonly Rule[] }

/** A condition beyond the plain form. It is asked only of values that have the plain form. */
export interface Rule {
  readonly holds: (value: never) => boolean
  /** The condition in words, such as "must name a program". */
  readonly says: string
}

export interface Pattern {
  readonly matches: RegExp
  readonly says: string
}

/** The least and the most of a number, of a text's characters or of a list's elements; undefined: no bound. */
export interface Bounds {
  readonly min?: number
  readonly max?: number
}

type Forms = Readonly<Record<string, Form>>

export interface TextForm extends Bounds {
  readonly kind: "text"
  readonly patterns?: readonly Pattern[]
}

export interface NumberForm extends Bounds {
  readonly kind: "number"
  readonly whole: boolean
}

export interface ListForm extends Bounds {
  readonly kind: "list"
  readonly element: Form
}

export interface MapForm {
  readonly kind: "map"
  readonly keys: Form
  readonly values: Form
}

/** An object with these keys and no others. */
export interface ObjectForm {
  readonly kind: "object"
  readonly required: Forms
  readonly optional: Forms
}

/** Objects that the value of one key tells apart. */
export interface TaggedForm {
  readonly kind: "tagged"
  readonly tag: string
  readonly forms: Forms
}

export interface EitherForm {
  readonly kind: "either"
  readonly forms: readonly Form[]
}

export interface ValueForm {
  readonly kind: "value"
  readonly values: readonly unknown[]
}

/** The form of values of a type. */
export type FormOf<Value> = Form & { readonly type?: Value }

type Plain =
  | TextForm
  | NumberForm
  | { readonly kind: "flag" }
  | ValueForm
  | ListForm
  | MapForm
  | ObjectForm
  | TaggedForm
  | EitherForm
