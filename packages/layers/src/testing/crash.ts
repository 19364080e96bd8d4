import { createReadStream, watch } from "node:fs"
import { join } from "node:path"
import { newId, SandboxId } from "@berth/protocol/ids"
import type { Layers } from "../layers.ts"
import { openLayers } from "../open.ts"
import { importFrom } from "./archive.ts"
import { AGENT, ID_BASE } from "./ids.ts"
import { key } from "./key.ts"

/**
 * A program that runs one operation on a store and kills itself at one step of it, or while the programs that it
 * started work: `node crash.ts ROOT OPERATION STEP`.
 */
const [, , root = "", operation = "", fatalStep = ""] = process.argv

const shop = key("shop")
const nothing = async () => {}

/** Kills this process: no handler, no cleaning up. */
const die = (): Promise<never> => {
  process.kill(process.pid, "SIGKILL")
  return new Promise(() => {})
}

const layers = await openLayers({
  root,
  idBase: ID_BASE,
  at: (step) => {
    if (step === fatalStep) return die()
    // The copy is under way as soon as something appears beside its source.
    if (`${step}+` === fatalStep) watchForCopy()
    return undefined
  },
})

const watchForCopy = () => {
  watch(join(root, "incoming"), { recursive: true }, (_, name) => {
    if (name?.includes("/tree/")) void die()
  })
}

const OPERATIONS: Readonly<Record<string, (layers: Layers) => Promise<unknown>>> = {
  top: async (store) => {
    await store.freeze(shop)
    await store.ensureTop(shop, AGENT)
  },
  freeze: (store) => store.freeze(shop),
  snapshot: async (store) => {
    const sandbox = SandboxId.parse(process.env.SANDBOX ?? newId.sandbox())
    await store.claimTop(shop, sandbox)
    return store.snapshot([shop], { sandbox, reason: "test", freeze: nothing, thaw: nothing })
  },
  flatten: async (store) => {
    await store.freeze(shop)
    await store.ensureTop(shop, AGENT)
    return store.flatten(shop)
  },
  collect: (store) => store.collect(),
  import: (store) => importFrom(store, createReadStream(process.env.ARCHIVE ?? "")),
}

await OPERATIONS[operation]?.(layers)
console.log("done")
