import { join } from "node:path"

/** Where the tests of one run have toolboxes in common. */
export const SHARED_TOOLBOXES = "BERTH_TEST_TOOLBOXES"

/** Without agents, so that it is made quickly; or as a server makes it, of half a gigabyte. */
export type ToolboxKind = "small" | "whole"

const BASE = process.env[SHARED_TOOLBOXES]

/** The store of what is shared; undefined outside of a run of tests. */
export const sharedStore = (kind: ToolboxKind): string | undefined =>
  BASE === undefined ? undefined : join(BASE, kind)
