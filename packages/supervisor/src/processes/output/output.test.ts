import { closeSync, writeSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { PassThrough } from "node:stream"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { Output } from "./output.ts"
import { type Pipe, Pipes } from "./pipes.ts"

let directory: string
let pipes: Pipes
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-output-"))
  pipes = new Pipes(directory)
})
afterEach(async () => {
  pipes.close()
  await rm(directory, { recursive: true, force: true })
})

const openPipe = async () => {
  const { readFd, writeFd } = (await pipes.take(undefined)) as Pipe
  const output = new Output([new Socket({ fd: readFd, readable: true, writable: false })])
  const heard: Buffer[] = []
  const stopListening = output.listen((chunk) => heard.push(chunk))
  return { writeFd, output, stopListening, text: () => Buffer.concat(heard).toString() }
}

describe("Output", () => {
  it("settles when it has read all earlier writes, though the other end stays open", async () => {
    const { writeFd, output, text } = await openPipe()
    for (const piece of ["one ", "two ", "x".repeat(60_000)]) {
      writeSync(writeFd, piece)
      expect(text().endsWith(piece)).toBe(false)
      await output.settled()
      expect(text().endsWith(piece)).toBe(true)
    }
    closeSync(writeFd)
    await output.ended
    await output.settled()
  })

  it("passes nothing to a listener that has left, and goes on reading", async () => {
    const { writeFd, output, stopListening, text } = await openPipe()
    stopListening()
    // Twice the capacity of a pipe: a write would block for ever if the output were not read.
    for (let n = 0; n < 4; n++) {
      writeSync(writeFd, "y".repeat(32_000))
      await output.settled()
    }
    expect(text()).toBe("")
    closeSync(writeFd)
    output.close()
  })

  it("ends when its stream fails", async () => {
    const stream = new PassThrough()
    const output = new Output([stream])
    stream.destroy(new Error("EIO"))
    await output.ended
  })
})
