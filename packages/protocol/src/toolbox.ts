import { z } from "zod"
import { RelativePath } from "./paths.ts"

/** Where the manifest lies in the tree that it describes. It is the only file that it does not list. */
export const TOOLBOX_MANIFEST = "manifest.json"

/** Made from what is in the toolbox: names, versions, contents and modes. Equal contents, equal id. */
export const ToolboxId = z
  .string()
  .regex(/^tb-[0-9a-f]{40}$/, "must be an id of the form tb-…")
  .brand<"tb">()
export type ToolboxId = z.infer<typeof ToolboxId>

export const ToolboxEntry = z.strictObject({
  /** What is asked for: `node`, `opencode`. */
  name: z.string().regex(/^[a-z][a-z0-9-]{0,62}$/),
  version: z.string().min(1),
  /** The file that makes it usable, in the tree. Never empty. */
  main: RelativePath,
})
export type ToolboxEntry = z.infer<typeof ToolboxEntry>

export const ToolboxFile = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("file"),
    path: RelativePath,
    /** For everyone to read, and for programs to run; for nobody to write. */
    mode: z.enum(["444", "555"]),
    bytes: z.int().nonnegative(),
    sha256: z.string().regex(/^[0-9a-f]{64}$/),
  }),
  z.strictObject({
    kind: z.literal("link"),
    path: RelativePath,
    /** Relative, and within the tree. */
    target: z.string().min(1),
  }),
])
export type ToolboxFile = z.infer<typeof ToolboxFile>

/**
 * What a toolbox holds. Directories are those that the files need, each for everyone to read and for
 * nobody to write. Nothing in a manifest is outside of what its id is made from.
 */
export const ToolboxManifest = z.strictObject({
  format: z.literal(1),
  id: ToolboxId,
  arch: z.enum(["x64", "arm64"]),
  entries: z.array(ToolboxEntry).min(1),
  /** By path. */
  files: z.array(ToolboxFile).min(1),
})
export type ToolboxManifest = z.infer<typeof ToolboxManifest>

/** What of a tree is not as its manifest says. */
export const ToolboxProblem = z.object({
  path: z.string(),
  problem: z.enum(["missing", "added", "kind", "content", "mode", "owner", "target", "manifest"]),
  expected: z.string().optional(),
  found: z.string().optional(),
})
export type ToolboxProblem = z.infer<typeof ToolboxProblem>

/** What `berth toolbox verify --json` prints of each toolbox. */
export const ToolboxReport = z.object({
  id: ToolboxId,
  status: z.enum(["intact", "changed"]),
  /** How much was read and compared. */
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

/** What `berth toolbox build --json` prints. */
export const ToolboxBuild = z.object({
  id: ToolboxId,
  directory: z.string(),
  /** `rebuilt` where a toolbox of this id was there, but was not what it should be. */
  outcome: z.enum(["built", "present", "rebuilt"]),
  /** What was wrong with the one that was replaced. */
  problems: z.array(ToolboxProblem),
  entries: z.array(ToolboxEntry),
  files: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
  durationMs: z.int().nonnegative(),
})
export type ToolboxBuild = z.infer<typeof ToolboxBuild>

/** How far a build is. The bytes are those of the step. */
export const ToolboxProgress = z.object({
  /** `installing` only where an agent's packages are not there yet: then the bytes are an estimate. */
  step: z.enum(["installing", "reading", "copying", "checking"]),
  entry: z.string(),
  bytesDone: z.int().nonnegative(),
  bytesTotal: z.int().nonnegative(),
})
export type ToolboxProgress = z.infer<typeof ToolboxProgress>
