import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { benchmark } from "../benchmark.ts"
import { runCommand } from "../command.ts"
import { openServed } from "../fixtures/served.ts"
import { timeMs } from "../measure.ts"

const BERTH = fileURLToPath(new URL("../../bin/berth", import.meta.url))

/** The number of entries in an installed dependency tree of a small project. */
const FOLDERS = 76
const FILES_A_FOLDER = 99
const MAKE_TREE = `
mkdir tree; cd tree
for folder in $(seq ${FOLDERS}); do
  mkdir d$folder
  head -c ${FILES_A_FOLDER * 4096} /dev/zero | split -b 4096 -a 3 - d$folder/f
done`

/** Copies a folder of small files out of a sandbox. */
export default benchmark({
  what: "berth cp out of 7,600 entries / berth exec tar | tar",
  unit: "ms",
  bound: { of: "ratio", atMost: 2 },
  statistic: "median",
  runs: 7,
  prepare: async (context) => {
    const base = await mkdtemp(join(tmpdir(), "berth-bench-cp-"))
    context.onEnd(() => rm(base, { recursive: true, force: true }))
    const served = await openServed(context)
    const { status, stderr } = await served.sandbox.commands.run(MAKE_TREE)
    if (status !== 0) throw new Error(`the tree was not made: ${stderr}`)
    return { ...served, base }
  },
  ours: ({ dataDir, sandbox, base }, signal) =>
    emptied(base, (to) =>
      runCommand(BERTH, ["cp", "--data-dir", dataDir, `${sandbox.id}:tree`, to], signal),
    ),
  other: ({ dataDir, sandbox, base }, signal) =>
    emptied(base, (to) => {
      const exec = '"$0" exec --data-dir "$1" "$2" -- tar -c -C tree .'
      const script = `mkdir "$3" && ${exec} | tar -x -C "$3"`
      return runCommand("sh", ["-c", script, BERTH, dataDir, sandbox.id, to], signal)
    }),
  note: ({ serverPeakMb }) => `the server's memory: at most ${serverPeakMb()} MB`,
})

/** Times a copy to a path where nothing is. */
const emptied = async (base: string, copy: (to: string) => Promise<void>): Promise<number> => {
  const to = join(base, "copy")
  await rm(to, { recursive: true, force: true })
  return await timeMs(() => copy(to))
}
