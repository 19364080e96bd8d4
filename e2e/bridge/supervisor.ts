/**
 * A supervisor with nothing but its journal, its prompts and its bridge: `node supervisor.ts DIRECTORY SANDBOX`.
 * It makes events until its stdin ends, and prints each event that is safe: `event NUMBER LABEL`, at last `last NUMBER`.
 */
import { appendFileSync } from "node:fs"
import { join } from "node:path"
import { SandboxId } from "@berth/protocol/ids"
import { Inside } from "@berth/supervisor/bridge/inside"
import { openPrompts, type RunPrompt } from "@berth/supervisor/bridge/prompts"
import { serveBridge } from "@berth/supervisor/bridge/serve"
import { readToken } from "@berth/supervisor/bridge/token"
import { Upgrades } from "@berth/supervisor/bridge/upgrades"
import { openJournal } from "@berth/supervisor/journal/journal"
import { openLedger } from "@berth/supervisor/journal/ledger"

const [, , directory = "", sandbox = ""] = process.argv
/** A small journal, so that it is full now and then. */
const MAX_BYTES = 128 * 1024
const BURST = 20

const say = (line: string) => process.stdout.write(`${line}\n`)

const opening = openJournal({ directory: join(directory, "journal"), maxBytes: MAX_BYTES })
const run: RunPrompt = async ({ prompt, text }) => {
  appendFileSync(join(directory, "ran"), `${prompt}\n`)
  const journal = await opening
  for (const word of text.split(" "))
    await journal.append({ type: "message.delta", prompt, message: "m", text: word })
  return { state: "succeeded" }
}
const prompting = Promise.all([opening, openLedger(join(directory, "ledger"))]).then(
  ([journal, ledger]) => openPrompts({ journal, ledger, run }),
)
const id = SandboxId.parse(sandbox)
const onFault = () => {}
const upgrades = new Upgrades({ sandbox: id, journal: opening, prompts: prompting, onFault })
await serveBridge({
  listen: [{ path: join(directory, "socket") }],
  token: readToken(join(directory, "token")),
  sandbox: id,
  health: () => ({ ready: true, prompts: 0 }),
  boot: () => ({}),
  inside: Promise.resolve(new Inside({ upgrades })),
  onFault,
})
const journal = await opening
const prompts = await prompting
prompts.open()

let isProducing = true
process.stdin.resume().on("end", () => {
  isProducing = false
})
for (let count = 0; isProducing; ) {
  const burst = Array.from({ length: BURST }, async () => {
    const label = `${process.pid}-${count++}`
    const { sequence } = await journal.append({ type: "warning", message: label })
    say(`event ${sequence} ${label}`)
  })
  await Promise.all(burst)
}
const sayLast = () => (prompts.count === 0 ? say(`last ${journal.last}`) : setTimeout(sayLast, 20))
sayLast()
