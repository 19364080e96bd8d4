import { readdir, stat } from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { AgentFile } from "../agents/agent.ts"

/** Throws if the toolbox lacks an agent's file, or has it empty. */
export const checkStage = async (files: readonly AgentFile[], toolbox: string): Promise<void> => {
  for (const { from } of files) {
    const path = join(toolbox, from)
    const lack = await lackOf(path)
    if (lack !== undefined)
      throw new BerthError("agent_files.incomplete", `the toolbox has no ${from}: ${lack}`, {
        details: { path, lack },
      })
  }
}

const lackOf = async (path: string): Promise<string | undefined> => {
  try {
    const found = await stat(path)
    if (found.isFile()) return found.size > 0 ? undefined : "it is an empty file"
    if (!found.isDirectory()) return "it is neither a file nor a directory"
    return (await holdsSomething(path)) ? undefined : "it is a directory without anything in it"
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException
    return code === "ENOENT" ? "it is missing" : message
  }
}

/** Whether a tree has a file with content. Stops at the first, so a large tree costs no more. */
const holdsSomething = async (directory: string): Promise<boolean> => {
  const entries = await readdir(directory, { withFileTypes: true })
  // Files before directories: mostly the first look is enough.
  for (const entry of entries)
    if (entry.isFile() && (await stat(join(directory, entry.name))).size > 0) return true
  for (const entry of entries)
    if (entry.isDirectory() && (await holdsSomething(join(directory, entry.name)))) return true
  return false
}
