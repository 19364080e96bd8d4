import type { ServerResponse } from "node:http"
import { connect, type Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"
import type { HttpCall } from "../features/feature.ts"
import { ANSWERED, tooSilent, workerEnded } from "./relay.ts"
import { HEAD_END, MAX_HEAD_BYTES, parseHead, type WorkerHead } from "./worker-head.ts"
import type { WorkerProcess } from "./worker-process.ts"

/** Buffers of a download, each as large as one read from a socket. While one is being sent, the others are filled. */
const BUFFER_BYTES = 256 * 1024
const BUFFERS = 3
/** With more downloads than this at once each has smaller buffers, so that all of them together stay within bounds. */
const CROWD = 16
const CROWDED_BUFFER_BYTES = 64 * 1024

/**
 * Passes on a file's content like `relay`, but reads into the same buffers again and again. Node's HTTP client
 * allocates memory for every chunk and copies it, which costs more than all the rest.
 */
export const download = (worker: WorkerProcess, silenceLimitMs: number) => {
  let underWay = 0
  return async (call: HttpCall): Promise<void> => {
    underWay++
    const bufferBytes = underWay > CROWD ? CROWDED_BUFFER_BYTES : BUFFER_BYTES
    try {
      await pass(worker, call, { silenceLimitMs, bufferBytes })
    } finally {
      underWay--
    }
  }
}

const pass = async (
  worker: WorkerProcess,
  { request, response, signal }: HttpCall,
  { silenceLimitMs, bufferBytes }: { silenceLimitMs: number; bufferBytes: number },
): Promise<void> => {
  const socketPath = await worker.socketPath()
  const range = request.headers.range === undefined ? "" : `range: ${request.headers.range}\r\n`
  // With HTTP/1.0 the content is not chunked, and ends with the connection.
  const asked = `GET ${request.url} HTTP/1.0\r\n${range}\r\n`
  await new Promise<void>((resolve, reject) => {
    const passing = new Passing(response, bufferBytes)
    const socket: Socket = connect({
      path: socketPath,
      onread: {
        buffer: () => passing.nextBuffer(),
        callback: (bytes, buffer) => {
          try {
            return passing.take(Buffer.from(buffer.buffer, buffer.byteOffset, bytes), socket)
          } catch (thrown) {
            socket.destroy(thrown as Error)
            return false
          }
        },
      },
    })
    const stop = () => socket.destroy(signal.reason)
    signal.addEventListener("abort", stop, { once: true })
    if (signal.aborted) stop()
    socket.setTimeout(silenceLimitMs, () => {
      if (passing.hasBegun) return
      socket.destroy(tooSilent(silenceLimitMs))
      worker.giveUp()
    })
    socket.on("error", (thrown) =>
      reject(thrown instanceof BerthError ? thrown : workerEnded(thrown)),
    )
    socket.on("close", () => {
      signal.removeEventListener("abort", stop)
      passing.end().then(resolve, reject)
    })
    socket.write(asked)
  })
}

/** An answer on its way from the worker to the client. */
class Passing {
  readonly #response: ServerResponse
  readonly #bufferBytes: number
  readonly #buffers = Array.from({ length: BUFFERS }, () => undefined as Buffer | undefined)
  #next = 0
  #unsent = 0
  #isHeld = false
  #head: WorkerHead | undefined
  #headBytes = Buffer.alloc(0)
  #passed = 0
  #sent: () => void = () => {}

  constructor(response: ServerResponse, bufferBytes: number) {
    this.#response = response
    this.#bufferBytes = bufferBytes
  }

  get hasBegun(): boolean {
    return this.#head !== undefined
  }

  nextBuffer(): Buffer {
    this.#next = (this.#next + 1) % BUFFERS
    const buffer = this.#buffers[this.#next] ?? Buffer.allocUnsafeSlow(this.#bufferBytes)
    this.#buffers[this.#next] = buffer
    return buffer
  }

  /** Passes on a chunk. Returns false if reading must pause until the client has taken some. */
  take(bytes: Buffer, socket: Socket): boolean {
    const content = this.#head === undefined ? this.#begin(bytes) : bytes
    if (content.length === 0) return true
    this.#passed += content.length
    if (this.#passed > (this.#head?.length ?? Number.POSITIVE_INFINITY)) throw workerEnded()
    this.#unsent++
    this.#response.write(content, () => {
      this.#unsent--
      this.#sent()
      if (this.#isHeld) socket.resume()
      this.#isHeld = false
    })
    // Keeps a buffer free for the next read.
    this.#isHeld = this.#unsent >= BUFFERS - 1
    return !this.#isHeld
  }

  /** Ends the answer. Throws if it is shorter than its announced length. */
  async end(): Promise<void> {
    const { length } = this.#head ?? { length: Number.NaN }
    if (length !== undefined && length !== this.#passed) throw workerEnded()
    while (this.#unsent > 0 && !this.#response.destroyed)
      await new Promise<void>((resolve) => {
        this.#sent = resolve
        this.#response.once("close", resolve)
      })
    this.#response.end()
  }

  /** Parses the head, and returns the content that came with it. */
  #begin(bytes: Buffer): Buffer {
    this.#headBytes = Buffer.concat([this.#headBytes, bytes])
    const end = this.#headBytes.indexOf(HEAD_END)
    if (end === -1 && this.#headBytes.length > MAX_HEAD_BYTES) throw workerEnded()
    if (end === -1) return Buffer.alloc(0)
    this.#head = parseHead(this.#headBytes.toString("latin1", 0, end), ANSWERED)
    if (this.#head === undefined) throw workerEnded()
    this.#response.writeHead(this.#head.status, this.#head.headers)
    return this.#headBytes.subarray(end + HEAD_END.length)
  }
}
