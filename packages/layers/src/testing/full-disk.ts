import { createReadStream } from "node:fs"
import { open, rm, stat, truncate } from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { openLayers } from "../open.ts"
import { exportTo, importFrom } from "./archive.ts"
import { AGENT, ID_BASE } from "./ids.ts"
import { key } from "./key.ts"
import { inMount } from "./mount.ts"

/**
 * A program that tries one operation on a disk without space, and again when there is some, and prints the outcomes as
 * JSON: `node full-disk.ts DIRECTORY OPERATION`. The directory is on a small disk of its own.
 */
const [, , directory = "", operation = ""] = process.argv

const shop = key("shop")
const root = join(directory, "store")
const layers = await openLayers({ root, idBase: ID_BASE })
const ballast = join(directory, "ballast")
const archive = join("/dev/shm", `berth-${newId.layer()}.tar.zst`)

const work = async (script: string, stack = shop): Promise<string> => {
  await layers.ensureTop(stack, AGENT)
  const sandbox = newId.sandbox()
  const { top, mount } = await layers.claimTop(stack, sandbox)
  const said = await inMount(mount, script)
  await layers.releaseTop(top, sandbox)
  return said
}

const fill = async (): Promise<void> => {
  await using file = await open(ballast, "w")
  for (const bytes of [1024 * 1024, 4096, 1]) {
    try {
      for (;;) await file.write(Buffer.alloc(bytes, 1))
    } catch {
      // The disk has no room for another block of this size.
    }
  }
}

const sandbox = newId.sandbox()
let thaws = 0

interface Trial {
  /** Called while there is space. */
  prepare(): Promise<unknown>
  attempt(): Promise<unknown>
  readonly copies?: boolean
}

const TRIALS: Readonly<Record<string, Trial>> = {
  top: { prepare: () => layers.freeze(shop), attempt: () => layers.ensureTop(shop, AGENT) },
  freeze: { prepare: async () => {}, attempt: () => layers.freeze(shop) },
  flatten: {
    copies: true,
    prepare: () => layers.freeze(shop),
    attempt: () => layers.flatten(shop),
  },
  snapshot: {
    copies: true,
    prepare: () => layers.claimTop(shop, sandbox),
    attempt: () =>
      layers.snapshot([shop], {
        sandbox,
        reason: "test",
        freeze: async () => {},
        thaw: async () => {
          thaws += 1
        },
      }),
  },
  import: {
    copies: true,
    prepare: async () => {
      const sent = key("sent")
      await layers.put(sent, null)
      await work(
        "mkdir e; head -c 3000000 /dev/urandom > three; head -c 3000000 /dev/urandom > four",
        sent,
      )
      const { layer } = await layers.freeze(sent)
      await exportTo(layers, layer, archive)
      await layers.remove(sent)
      await layers.collect()
    },
    attempt: () => importFrom(layers, createReadStream(archive)),
  },
}

const trial = TRIALS[operation]
if (trial === undefined) throw new Error(`there is no trial of ${operation}`)

await layers.put(shop, null)
await work("head -c 3000000 /dev/urandom > one; sha256sum one > sums")
await layers.freeze(shop)
await work("head -c 3000000 /dev/urandom > two; sha256sum two >> sums; mkdir d")
await trial.prepare()
await fill()
// A copy is given room to begin (a record still fits): the trial is about how it ends.
if (trial.copies) await truncate(ballast, (await stat(ballast)).size - 1024 * 1024)
const failed = await trial.attempt().then(
  () => "nothing",
  (thrown) => (thrown instanceof BerthError ? thrown.code : String(thrown)),
)
await rm(ballast)
const { repairs, problems } = await layers.verify()
const again = await trial.attempt().then(
  () => "done",
  (thrown) => String(thrown),
)
if (operation === "snapshot") await layers.releaseTop((await layers.ensureTop(shop)).top, sandbox)
const checked = await work("sha256sum --status -c sums && echo intact")
await rm(archive, { force: true })
console.log(JSON.stringify({ failed, repairs, problems, again, checked, thaws }))
