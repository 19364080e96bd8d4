import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { PLAIN_ENV } from "@berth/host/child"
import { onTestFinished } from "vitest"
import type { Namespace } from "./namespace.ts"

export interface FakeTool {
  /** The arguments of each call so far, a line each. */
  calls(): Promise<string[]>
}

/**
 * Puts a script before the real tool, for faults: it runs with `$REAL` as the tool's path. Until the test's end, every
 * program in that namespace gets it.
 */
export const replaceTool = async (
  namespace: Namespace,
  tool: string,
  script: string,
): Promise<FakeTool> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-tools-"))
  const log = join(directory, "log")
  await mkdir(join(directory, "bin"))
  const file = join(directory, "bin", tool)
  await writeFile(log, "")
  await writeFile(
    file,
    `#!/bin/sh\necho "$*" >> ${log}\nREAL=$(PATH=${PLAIN_ENV.PATH} command -v ${tool})\n${script}\n`,
  )
  await chmod(file, 0o755)
  await namespace.call("path", `${join(directory, "bin")}:${PLAIN_ENV.PATH}`)
  onTestFinished(async () => {
    await namespace.call("path", PLAIN_ENV.PATH).catch(() => {})
    await rm(directory, { recursive: true, force: true })
  })
  return {
    calls: async () => (await readFile(log, "utf8")).split("\n").filter((line) => line !== ""),
  }
}

/** Removes every tool from the agent's path. */
export const removeTools = async (namespace: Namespace): Promise<void> => {
  await namespace.call("path", "/nonexistent")
  onTestFinished(() => namespace.call("path", PLAIN_ENV.PATH))
}
