import { mkdtempSync } from "node:fs"
import { rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { onTestFinished } from "vitest"
import type { Layers } from "../layers.ts"
import { openLayers } from "../open.ts"
import { AGENT, ID_BASE } from "./ids.ts"
import { HOST_ROOT, inMount } from "./mount.ts"

/** In memory: a disk takes several times as long for many small files. */
const IN_MEMORY = "/dev/shm"

/** Makes a directory for the running test, removed after it. */
export const makeRoot = (parent = IN_MEMORY): string => {
  const root = mkdtempSync(join(parent, "berth-layers-"))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  return root
}

export const makeRootOnDisk = (): string => makeRoot(tmpdir())

export const openForTest = (root = makeRoot()): Promise<Layers> =>
  openLayers({ root, idBase: ID_BASE })

/** Runs a script as the agent in a sandbox's files: claimed, mounted, and released when it has ended. */
export const work = async (layers: Layers, stack: StackKey, script: string): Promise<string> => {
  await layers.ensureTop(stack, AGENT)
  const sandbox = newId.sandbox()
  const { top, mount } = await layers.claimTop(stack, sandbox)
  try {
    return await inMount(mount, script)
  } finally {
    await layers.releaseTop(top, sandbox)
  }
}

/**
 * Lists everything that a stack shows, as text: names, kinds, modes, owners as the sandbox has them, times, links and
 * contents. Two stacks that show the same give the same text.
 */
export const view = async (layers: Layers, stack: StackKey, idBase = ID_BASE): Promise<string> => {
  await layers.ensureTop(stack, AGENT)
  const sandbox = newId.sandbox()
  const { top, mount } = await layers.claimTop(stack, sandbox)
  try {
    const shown = await inMount(mount, VIEW, HOST_ROOT)
    return shown.replaceAll(/ @(\d+):(\d+) /g, (_, uid, gid) => ` ${uid - idBase}:${gid - idBase} `)
  } finally {
    await layers.releaseTop(top, sandbox)
  }
}

/**
 * Left out are the size of a directory, which is an accident, and the time of the root directory, which every new top
 * sets. An overlay counts links whose other names it hides: so the text tells which names are one file.
 */
const VIEW = `
find . -mindepth 1 -type d -printf '%P %y %m @%U:%G %T@\\n' | sort
find . -mindepth 1 ! -type d -printf '%P %y %m @%U:%G %s %T@ %l\\n' | sort
find . ! -type d -links +1 -printf '%i %P\\n' | sort | awk '{ n = $1; $1 = ""; names[n] = names[n] $0; count[n]++ } END { for (n in names) if (count[n] > 1) print "linked" names[n] }' | sort
find . -type f -exec sha256sum {} + | sort -k 2
stat -c 'root %a @%u:%g ' .
`

/** Runs a script in a sandbox, then freezes the top. */
export const workAndFreeze = async (layers: Layers, stack: StackKey, script: string) => {
  await work(layers, stack, script)
  return layers.freeze(stack)
}
