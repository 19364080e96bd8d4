import { BerthError } from "@berth/protocol/errors"

/** The text of a reply. A reply longer than `maxBytes` is given up, and costs no more memory. */
export const boundedText = async (reply: Response, maxBytes: number): Promise<string> => {
  if (reply.body === null) return ""
  const reader = reply.body.getReader()
  const decoder = new TextDecoder()
  const pieces: string[] = []
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    bytes += value.length
    if (bytes > maxBytes) {
      await reader.cancel().catch(() => {})
      throw new BerthError("server.reply_invalid", "the reply is longer than any of its kind", {
        details: { status: reply.status, limitBytes: maxBytes },
      })
    }
    pieces.push(decoder.decode(value, { stream: true }))
  }
  pieces.push(decoder.decode())
  return pieces.join("")
}
