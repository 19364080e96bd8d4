import { Readable } from "node:stream"
import { describe, expect, it } from "vitest"
import { MAX_MESSAGE_BYTES, messagesIn } from "./messages.ts"

const message = (id: number, more: object = {}) => ({ jsonrpc: "2.0", id, ...more })
const line = (value: unknown) => Buffer.from(`${JSON.stringify(value)}\n`)

const heard = async (...chunks: readonly Buffer[]) => {
  const messages: unknown[] = []
  for await (const each of messagesIn(Readable.from(chunks))) messages.push(each)
  return messages
}

describe("the messages of a process", () => {
  it("are whole, wherever their bytes are cut", async () => {
    const sent = [message(1, { text: "ü🚢" }), message(2), message(3)]
    const all = Buffer.concat(sent.map(line))
    for (let at = 0; at <= all.length; at++)
      expect(await heard(all.subarray(0, at), all.subarray(at))).toEqual(sent)
  })

  it("leave out output that is no message of the protocol", async () => {
    const others = ["starting…\n", "\n", "[]\n", "null\n", '{"id":1}\n', '{"jsonrpc":"1.0"}\n']
    expect(await heard(...others.map((text) => Buffer.from(text)), line(message(1)))).toEqual([
      message(1),
    ])
  })

  it("are left out where they are too long, and the next message is heard", async () => {
    const piece = Buffer.alloc(MAX_MESSAGE_BYTES / 4, "x")
    const long = [Buffer.from('{"jsonrpc":"2.0","x":"'), piece, piece, piece, piece, piece]
    expect(await heard(...long, Buffer.from('"}\n'), line(message(1)))).toEqual([message(1)])
  })
})
