import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Check } from "../tools/check.ts"
import { findTrialTools } from "../tools/in-namespaces.ts"
import { nearestDirectory } from "../tools/nearest-directory.ts"
import { oneLine } from "../tools/one-line.ts"
import { runTool } from "../tools/run-tool.ts"

export const overlay: Check = {
  name: "overlay",
  why: "A sandbox's files are layers: a snapshot or a fork costs milliseconds whatever its size.",
  probe: async (host, signal) => {
    const tools = await findTrialTools(host)
    if ("missing" in tools) return tools.missing
    const { unshare, shell } = tools
    const trial = await makeTrial(host.dataDir)
    try {
      const namespace = [unshare, "--user", "--map-root-user", "--mount"] as const
      const { status, stderr } = await runTool(host, [...namespace, shell, "-ec", TRY], signal, {
        cwd: trial,
      })
      const details = { directory: trial.slice(0, trial.lastIndexOf("/")) || "/" }
      if (status === 0) {
        return { status: "ok", found: `userxattr works in ${details.directory}`, details }
      }
      return {
        status: "missing",
        found: `an overlay with userxattr fails in ${details.directory}: ${oneLine(stderr)}`,
        fix: "use a kernel of 5.11 or newer that allows user namespaces, and a data directory on ext4, xfs or btrfs",
        details,
      }
    } finally {
      await rm(trial, { recursive: true, force: true })
    }
  },
}

/**
 * Without userxattr, the removal of a directory of a lower layer fails. The kernel's own directory in `work` can only
 * be removed by root of the namespace, so the script does it.
 */
const TRY = `
mount -t overlay overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work merged
rm -r merged/removed
mkdir merged/removed
umount merged
rm -r work
`

/** Makes the directory of the trial, on the file system of the layers if possible, since the answer depends on it. */
const makeTrial = async (dataDir: string): Promise<string> => {
  const trial = await mkdtemp(join(await nearestDirectory(dataDir), ".berth-doctor-")).catch(() =>
    mkdtemp(join(tmpdir(), "berth-doctor-")),
  )
  await Promise.all(
    ["lower/removed", "upper", "work", "merged"].map((directory) =>
      mkdir(join(trial, directory), { recursive: true }),
    ),
  )
  return trial
}
