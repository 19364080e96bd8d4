import { dirname, join } from "node:path"
import type { Cgroup } from "../cgroups.ts"
import { fieldOf, readIfThere } from "../files.ts"

/** The processor time that a cgroup has used, as the kernel counts it. */
export const cpuSecondsOf = async ({ joinFiles }: Cgroup): Promise<number> => {
  for (const directory of joinFiles.map((file) => dirname(file))) {
    const nanoseconds = await readIfThere(join(directory, "cpuacct.usage"))
    if (nanoseconds !== undefined) return Number(nanoseconds) / 1e9
    const text = (await readIfThere(join(directory, "cpu.stat"))) ?? ""
    const microseconds = fieldOf(text, "usage_usec")
    if (microseconds !== undefined) return microseconds / 1e6
  }
  throw new Error("the kernel counts no processor time here")
}
