import { join } from "node:path"

/** The variable with the directory of the toolboxes that the tests of one run share. */
export const SHARED_TOOLBOXES = "BERTH_TEST_TOOLBOXES"

/** The small toolbox has no agents and is made quickly; the whole one, of half a gigabyte, is as a server makes it. */
export type ToolboxKind = "small" | "whole"

const BASE = process.env[SHARED_TOOLBOXES]

/** The store of a shared toolbox; undefined outside of a run of tests. */
export const sharedStore = (kind: ToolboxKind): string | undefined =>
  BASE === undefined ? undefined : join(BASE, kind)
