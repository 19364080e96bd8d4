import { connect } from "node:net"
import { benchmark } from "../benchmark.ts"
import { openSession } from "../fixtures/sessions.ts"

const STREAMS = 300
const SAMPLES = 40

/** Writes as fast as it is read, in lines, for longer than all runs take. */
const FLOOD = `timeout 600 perl -e 'my $line = ("x" x 2000) . "\\n"; print $line while 1'`

/** The attack: a prompt that writes without end, and event streams that nobody reads. */
export default benchmark({
  what: "GET /v1/health while a prompt floods the log and 300 event streams are not read, p99",
  unit: "ms",
  bound: { of: "ours", atMost: 50 },
  statistic: "p99",
  runs: 7,
  prepare: async (context) => {
    const opened = await openSession(context)
    await opened.session.prompt(FLOOD, { signal: context.signal })
    const { hostname, port } = new URL(opened.url)
    const ask = [
      `GET /v1/sessions/${opened.session.id}/events HTTP/1.1`,
      `Host: ${hostname}:${port}`,
      `Authorization: Bearer ${opened.token}`,
      "\r\n",
    ].join("\r\n")
    for (let count = 0; count < STREAMS; count++) {
      const socket = connect(Number(port), hostname)
      socket.on("error", () => {}).pause()
      socket.write(ask)
      context.onEnd(async () => void socket.destroy())
    }
    return opened
  },
  ours: async ({ url }, signal) => {
    const samples: number[] = []
    for (let count = 0; count < SAMPLES; count++) {
      const before = performance.now()
      await (await fetch(`${url}/v1/health`, { signal })).text()
      samples.push(performance.now() - before)
    }
    return samples
  },
})
