import { z } from "zod"
import { hasNoDotParts, hasNoNul } from "./rules.ts"

const ESCAPE = "must not contain . or .. as a part"
const NUL = "must not contain a NUL byte"
/** Longer paths are refused by the kernel anyway (PATH_MAX). */
const MAX_PATH_BYTES = 4095

/** A path inside a sandbox or on the host: absolute, normal form, without a trailing slash. */
export const AbsolutePath = z
  .string()
  .max(MAX_PATH_BYTES)
  .regex(/^\/([^/]+(\/[^/]+)*)?$/, "must be an absolute path without empty parts")
  .refine(hasNoDotParts, ESCAPE)
  .refine(hasNoNul, NUL)
export type AbsolutePath = z.infer<typeof AbsolutePath>

/** A path below some root that the reader knows: relative, normal form. */
export const RelativePath = z
  .string()
  .max(MAX_PATH_BYTES)
  .regex(/^[^/]+(\/[^/]+)*$/, "must be a relative path without empty parts")
  .refine(hasNoDotParts, ESCAPE)
  .refine(hasNoNul, NUL)
export type RelativePath = z.infer<typeof RelativePath>

/** The name of one file, without any directory. */
export const FileName = z
  .string()
  .max(255)
  .regex(/^(?!\.{1,2}$)[^/\p{Cc}]+$/u, "must be a file's name, without a directory")
export type FileName = z.infer<typeof FileName>
