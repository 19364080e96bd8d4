import { join } from "node:path"
import { type Child, type ChildOptions, startChild as startScript } from "@berth/testing/child"

export type { Child }

/** Starts one of the scripts beside this file. */
export const startChild = (script: string, options: ChildOptions): Child =>
  startScript(join(import.meta.dirname, script), options)
