import { z } from "zod"
import { RelativePath } from "./paths.ts"

/** The path of the manifest in its tree. It is the only file that the manifest does not list. */
export const TOOLBOX_MANIFEST = "manifest.json"

/** The id is made from the toolbox's contents: names, versions, bytes and modes. Equal contents have equal ids. */
export const ToolboxId = z
  .string()
  .regex(/^tb-[0-9a-f]{40}$/, "must be an id of the form tb-…")
  .brand<"tb">()
export type ToolboxId = z.infer<typeof ToolboxId>

export const ToolboxEntry = z.strictObject({
  /** The name of the program: `node`, `opencode`. */
  name: z.string().regex(/^[a-z][a-z0-9-]{0,62}$/),
  version: z.string().min(1),
  /** The path of the program's main file in the tree. Never empty. */
  main: RelativePath,
})
export type ToolboxEntry = z.infer<typeof ToolboxEntry>

export const ToolboxFile = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("file"),
    path: RelativePath,
    /** The mode: everyone may read the file, and run it if it is a program; nobody may write it. */
    mode: z.enum(["444", "555"]),
    bytes: z.int().nonnegative(),
    sha256: z.string().regex(/^[0-9a-f]{64}$/),
  }),
  z.strictObject({
    kind: z.literal("link"),
    path: RelativePath,
    /** The target: relative, and within the tree. */
    target: z.string().min(1),
  }),
])
export type ToolboxFile = z.infer<typeof ToolboxFile>

/**
 * The contents of a toolbox. Directories follow from the files; everyone may read them, and nobody may write them. The
 * id covers everything in a manifest.
 */
export const ToolboxManifest = z.strictObject({
  format: z.literal(1),
  id: ToolboxId,
  arch: z.enum(["x64", "arm64"]),
  entries: z.array(ToolboxEntry).min(1),
  /** The files, by path. */
  files: z.array(ToolboxFile).min(1),
})
export type ToolboxManifest = z.infer<typeof ToolboxManifest>

/** A difference between a tree and its manifest. */
export const ToolboxProblem = z.object({
  path: z.string(),
  problem: z.enum(["missing", "added", "kind", "content", "mode", "owner", "target", "manifest"]),
  expected: z.string().optional(),
  found: z.string().optional(),
})
export type ToolboxProblem = z.infer<typeof ToolboxProblem>

/** The output of `berth toolbox verify --json` for each toolbox. */
export const ToolboxReport = z.object({
  id: ToolboxId,
  status: z.enum(["intact", "changed"]),
  /** The files and bytes that were read and compared. */
  files: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
  problems: z.array(ToolboxProblem),
})
export type ToolboxReport = z.infer<typeof ToolboxReport>

/** A line of `berth toolbox ls`. */
export const ToolboxSummary = z.object({
  id: ToolboxId,
  directory: z.string(),
  /** `unchecked` until its contents are compared again: `berth toolbox verify` does. */
  status: z.enum(["intact", "unchecked", "damaged"]),
  builtAt: z.iso.datetime().nullable(),
  entries: z.array(ToolboxEntry),
  files: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
})
export type ToolboxSummary = z.infer<typeof ToolboxSummary>

/** The output of `berth toolbox build --json`. */
export const ToolboxBuild = z.object({
  id: ToolboxId,
  directory: z.string(),
  /** `rebuilt`: a toolbox of this id was there, but damaged. */
  outcome: z.enum(["built", "present", "rebuilt"]),
  /** The damage of the toolbox that was replaced. */
  problems: z.array(ToolboxProblem),
  entries: z.array(ToolboxEntry),
  files: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
  durationMs: z.int().nonnegative(),
})
export type ToolboxBuild = z.infer<typeof ToolboxBuild>

/** The progress of a build. The bytes are those of the step. */
export const ToolboxProgress = z.object({
  /** `installing` only where an agent's packages are not there yet: then the bytes are an estimate. */
  step: z.enum(["installing", "reading", "copying", "checking"]),
  entry: z.string(),
  bytesDone: z.int().nonnegative(),
  bytesTotal: z.int().nonnegative(),
})
export type ToolboxProgress = z.infer<typeof ToolboxProgress>
