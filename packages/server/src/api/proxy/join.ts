import type { Socket } from "node:net"
import { performance } from "node:perf_hooks"
import type { Duplex } from "node:stream"
import { collectOften } from "@berth/host/collect-often"
import type { Throttle } from "@berth/host/throttle"
import { BerthError, toWireError } from "@berth/protocol/errors"
import type { Conversation } from "./conversations.ts"
import { writeClose } from "./frame-header.ts"
import { Frames } from "./frames.ts"
import { refusalFrames } from "./handshake.ts"

/** When one side ends, the other has this long to take the bytes that are on their way. */
const LINGER_MS = 10_000

/** The time from a sandbox's last message to its close; after that the server closes in its place. */
const CLOSE_MS = 1_000

export interface JoinParts {
  readonly conversation: Conversation
  /** The budget for parsing, in milliseconds of processor time over all connections of the sandbox. */
  readonly parsing: Throttle
}

/**
 * Passes data both ways, each as fast as the other side takes it: bytes of the client as they are, and of the sandbox
 * the frames that the conversation allows. An invalid frame ends it, and the client is told. Resolves with the error,
 * if any, when both are closed.
 */
export const join = async (
  client: Duplex,
  sandbox: Socket,
  { conversation, parsing }: JoinParts,
): Promise<BerthError | undefined> => {
  let failure: BerthError | undefined
  const frames = new Frames(conversation, (bytes) => {
    if (!client.write(bytes)) sandbox.pause()
  })
  let wait: NodeJS.Timeout | undefined
  let lastWords: NodeJS.Timeout | undefined
  const readOn = () => {
    if (wait === undefined && !client.writableNeedDrain) sandbox.resume()
  }
  const waitFor = (ms: number) => {
    sandbox.pause()
    wait = setTimeout(() => {
      wait = undefined
      readOn()
    }, ms)
  }
  const finish = () => {
    client.write(writeClose(1000))
    sandbox.destroy()
  }
  const take = (bytes: Buffer) => {
    try {
      const tookMs = frames.take(bytes) / 1000
      const restMs = parsing.take(tookMs, performance.now())
      if (restMs > 0 && wait === undefined) waitFor(restMs)
      if (frames.isLast && !conversation.isHalfOpen) lastWords ??= setTimeout(finish, CLOSE_MS)
      if (frames.isClosed) clearTimeout(lastWords)
    } catch (thrown) {
      failure = thrown instanceof BerthError ? thrown : defect(thrown)
      sandbox.off("data", take)
      client.write(refusalFrames(toWireError(failure)))
      sandbox.destroy()
    }
  }
  collectOften(sandbox)
  client.pipe(sandbox)
  client.on("drain", readOn)
  sandbox.on("data", take)
  client.once("close", () => sandbox.destroy())
  await closeOf(sandbox)
  clearTimeout(wait)
  clearTimeout(lastWords)
  if (frames.isMidFrame) client.destroy()
  else linger(client)
  await closeOf(client)
  return failure
}

/**
 * Ends the client's side after it has taken what is on its way. What it still sends is read, or it would see a reset
 * first.
 */
const linger = (client: Duplex): void => {
  if (client.destroyed) return
  client.end()
  client.resume()
  const late = setTimeout(() => client.destroy(), LINGER_MS)
  client.once("close", () => clearTimeout(late))
}

const defect = (cause: unknown): BerthError =>
  new BerthError("internal", "a frame of the sandbox could not be looked at", { cause })

const closeOf = (stream: Duplex): Promise<void> =>
  new Promise((resolve) => {
    if (stream.closed) resolve()
    else stream.once("close", () => resolve())
  })
