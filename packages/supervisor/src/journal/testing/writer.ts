/**
 * A process for tests to kill. Appends without end, each event labelled with its number, takes prompts through their
 * states, and prints each promise that it got: `event N`, `acknowledged N`, `STATE PROMPT`.
 */
import { newId } from "@berth/protocol/ids"
import { seeded } from "@berth/testing/seed"
import { openJournal } from "../journal.ts"
import { openLedger } from "../ledger.ts"

const [, , directory = "", seed = "0"] = process.argv
const MAX_BYTES = 64 * 1024
const random = seeded(Number(seed))
const say = (line: string) => process.stdout.write(`${line}\n`)

const journal = await openJournal({ directory: `${directory}/journal`, maxBytes: MAX_BYTES })
const ledger = await openLedger(`${directory}/ledger`)

const appendForever = async () => {
  for (let next = journal.last + 1; ; ) {
    const burst = Array.from({ length: 1 + Math.floor(random() * 20) }, async () => {
      const label = next++
      const padding = Math.floor(random() * 2000)
      const durable = random() < 0.1
      const body = { type: "warning", message: `${label}${" ".repeat(padding)}` } as const
      const { sequence } = await journal.append(body, { durable })
      say(`event ${sequence}`)
    })
    await Promise.all(burst)
    if (random() < 0.5 || journal.bytes > MAX_BYTES / 2) {
      const upTo = journal.last - Math.floor(random() * 10)
      say(`acknowledged ${upTo}`)
      await journal.acknowledge(upTo)
    }
  }
}

const promptForever = async () => {
  for (;;) {
    const prompt = newId.prompt()
    await ledger.accept({ prompt, session: newId.session(), text: "x".repeat(random() * 3000) })
    say(`accepted ${prompt}`)
    await ledger.start(prompt)
    say(`started ${prompt}`)
    await ledger.end(prompt, { state: "succeeded" })
    say(`ended ${prompt}`)
  }
}

await Promise.all([appendForever(), promptForever()])
