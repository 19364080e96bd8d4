import { readdir, readFile } from "node:fs/promises"

/** The host's processes with this argument. */
export const pidsWith = async (argument: string): Promise<string[]> => {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name))
  const commands = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")),
  )
  return pids.filter((_, index) => commands[index]?.split("\0").includes(argument))
}

/** The run time of these processes in nanoseconds, as the kernel counts it. */
export const ranNs = async (pids: readonly string[]): Promise<number> => {
  const counted = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/schedstat`, "utf8")))
  return counted.reduce((sum, text) => sum + Number(text.split(" ")[0]), 0)
}
