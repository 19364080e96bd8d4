import { newId } from "@berth/protocol/ids"
import { openEmbedded } from "../backend.ts"
import { specFor } from "./spec.ts"

/** A program that runs a sandbox on a host whose cgroups are read-only, and prints the outcome: for faults.test.ts. */
const directory = process.argv[2] ?? ""
const installation = newId.installation()
const backend = await openEmbedded({ installation, directory })
const spec = specFor(installation, { command: ["/bin/echo", "up"] })
const { sandbox } = spec.identity
const stop = new AbortController()
const events = backend.watch(stop.signal)
const observed = await backend.create(spec)
await backend.start(sandbox)
for await (const event of events) if (event.kind === "exited") break
stop.abort()
const output = await backend.logs(sandbox)
await backend.remove(sandbox)
console.log(JSON.stringify({ description: await backend.describe(), observed, output }))
