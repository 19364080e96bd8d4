import { BerthError } from "@berth/protocol/errors"
import { parseJson } from "./call.ts"
import { notBerth } from "./reply-error.ts"
import type { Socket } from "./socket.ts"

interface MessageSchema<Message> {
  safeParse(value: unknown): { success: true; data: Message } | { success: false }
}

/** The messages of a running program, up to its exit. */
export interface UntilExit<Message, Exit> {
  readonly exit: PromiseWithResolvers<Exit>
  /** The next message, or a piece of data. A failure here fails the exit, too, and ends the connection. */
  read(): Promise<Uint8Array | Message>
}

export const untilExit = <Message, Exit>(
  { url, socket }: { readonly url: string; readonly socket: Socket },
  schema: MessageSchema<Message>,
  /** The subject of the error message: "the command". */
  subject: string,
): UntilExit<Message, Exit> => {
  const exit = Promise.withResolvers<Exit>()
  exit.promise.catch(() => {})
  const next = async (): Promise<Uint8Array | Message> => {
    const frame = await socket.next()
    if (frame === undefined)
      throw new BerthError("bridge.dropped", `the connection ended before ${subject} did`)
    if (typeof frame !== "string") return frame
    const parsed = schema.safeParse(parseJson(frame))
    if (!parsed.success) throw notBerth(url, 0)
    return parsed.data
  }
  const read = () =>
    next().catch((thrown: unknown) => {
      exit.reject(thrown)
      socket.close()
      throw thrown
    })
  return { exit, read }
}
