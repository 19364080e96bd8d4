import { execFile } from "node:child_process"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import { openToolboxes } from "@berth/toolbox/store"
import { benchmark, type Context } from "../benchmark.ts"
import { type Embedded, openEmbeddedFixture } from "../fixtures/embedded.ts"
import { timeMs } from "../measure.ts"
import { median } from "../statistics.ts"

/** The size of a dependency tree that an agent's plugins need. */
const PACKAGES = 250
const FILES_EACH = 20
const FILE_BYTES = 4_096
const COPIES = 5

const LAST = `agents/agent/node_modules/package-${PACKAGES - 1}/file-${FILES_EACH - 1}.js`

/**
 * The time that the toolbox adds to a boot: a sandbox with it that reads one of its files, compared with a sandbox
 * without it.
 */
export default benchmark({
  what: "sandbox that reads a file of its 5,000-file toolbox − sandbox without one",
  unit: "ms",
  bound: { of: "difference", atMost: 10 },
  statistic: "median",
  runs: 41,
  prepare: async (context) => {
    const { directory, copyMs } = await buildToolbox(context)
    const embedded = await openEmbeddedFixture(context)
    return { embedded, directory, copyMs }
  },
  ours: ({ embedded, directory }, signal) => {
    const toolbox = { kind: "directory", source: directory, target: TOOLBOX_TARGET } as const
    return boot(embedded, `${TOOLBOX_TARGET}/${LAST}`, signal, [{ ...toolbox, readOnly: true }])
  },
  other: ({ embedded }, signal) => boot(embedded, "/etc/passwd", signal, []),
  note: ({ copyMs }) => `copying the same tree into the sandbox: ${Math.round(copyMs)} ms`,
})

/** Boots a sandbox that reads a line of the file, prints "up", and ends when it is asked to. */
const boot = async (
  { backend, boot: bootSandbox }: Embedded,
  file: string,
  signal: AbortSignal,
  mounts: Parameters<Embedded["boot"]>[2],
): Promise<number> => {
  const script = `trap 'exit 0' TERM; read -r line < ${file} && echo up; while :; do sleep 0.05; done`
  const start = performance.now()
  const sandbox = await bootSandbox(["/bin/sh", "-c", script], signal, mounts)
  const took = performance.now() - start
  await backend.remove(sandbox)
  return took
}

const buildToolbox = async ({ onEnd, signal }: Context) => {
  const place = await mkdtemp(join(tmpdir(), "berth-bench-toolbox-"))
  onEnd(() => rm(place, { recursive: true, force: true }))
  const modules = join(place, "node_modules")
  for (let n = 0; n < PACKAGES; n++) {
    const directory = join(modules, `package-${n}`)
    await mkdir(directory, { recursive: true })
    for (let file = 0; file < FILES_EACH; file++) {
      const text = `// ${n} ${file}\n`.padEnd(FILE_BYTES, "x")
      await writeFile(join(directory, `file-${file}.js`), text)
    }
  }
  const toolboxes = openToolboxes({ root: join(place, "toolbox"), arch: "x64" })
  const to = "agents/agent/node_modules"
  const parts = [{ kind: "tree", from: modules, to } as const]
  const input = { name: "agent", version: "1.0.0", main: LAST, parts }
  const { directory } = await toolboxes.build([input], { signal })

  const copies: number[] = []
  for (let n = 0; n < COPIES; n++) {
    const target = join(place, `copy-${n}`)
    copies.push(await timeMs(() => promisify(execFile)("cp", ["-a", modules, target])))
  }
  return { directory, copyMs: median(copies) }
}
