import { readFileSync } from "node:fs"
import { isDeepStrictEqual } from "node:util"
import { Slug } from "@berth/protocol/ids"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { sized } from "@berth/testing/sampled"
import { sampledCases } from "@berth/testing/sampled-cases"
import { describe, expect, onTestFinished } from "vitest"
import { processesOf } from "../boot/stage.ts"
import { RawClient } from "./raw-client.ts"
import type { openServer } from "./server.ts"
import { filesWorkerOf, peakMb, supervisorOf, tracesOf, watchMemory } from "./traces.ts"

const MIB = 1024 * 1024
const COMMANDS = sized("commands at once", { few: 150, all: 1_000 })
const FLOOD_BYTES = 10 * 1024 * MIB
const FILE_MIB = sized("MiB of a file under load", { few: 160, all: 512 })

/** Covers garbage that is not collected yet, for which V8 makes room. */
const SERVER_GROWTH_MB = 110
const SUPERVISOR_MB = 150

export interface Stage {
  readonly server: Awaited<ReturnType<typeof openServer>>
  readonly box: Sandbox
}

/** Adds the cases of much work for the server and for a supervisor. */
export const describeLoad = (stage: () => Stage): void => {
  describe("under load", () => {
    sampledCases("kinds of load on a sandbox", 1, (it) => {
      it(`answers ${COMMANDS} commands at once, each correctly, and then carries a large file, in less than ${SERVER_GROWTH_MB} MB more memory`, async () => {
        const { server } = stage()
        const box = await freshBox(server, "thousand")
        const memory = watchMemory(server.pid())
        const running = await Promise.all(
          Array.from({ length: COMMANDS }, (_, n) =>
            box.commands.spawn(["sh", "-c", `read x; echo $x; exit ${n % 100}`], {
              stdin: true,
              deadlineMs: 60_000,
            }),
          ),
        )
        expect(await box.commands.list()).toHaveLength(COMMANDS)
        await Promise.all(
          running.map(async (command, n) => {
            await command.write(Buffer.from(`${n}\n`))
            let said = ""
            for await (const piece of command.output)
              if ("bytes" in piece) said += `${piece.stream} ${Buffer.from(piece.bytes)}`
            expect(said).toBe(`stdout ${n}\n`)
            expect(await command.exit).toMatchObject({ status: n % 100, signal: null })
          }),
        )
        expect(await box.commands.list()).toEqual([])
        await carry(box, FILE_MIB)
        expect(peakMb(supervisorOf(box.id))).toBeLessThan(SUPERVISOR_MB)
        expect(memory.grownMb()).toBeLessThan(SERVER_GROWTH_MB)
      }, 120_000)

      it(`holds up a flood for a client that does not read, in less than ${SERVER_GROWTH_MB} MB more memory, and ends it with the client`, async () => {
        const { server } = stage()
        const box = await freshBox(server, "flood")
        const memory = watchMemory(server.pid())
        const traces = () => tracesOf(server.pid(), box.id)
        const none = await settled(traces)
        const client = await RawClient.open(server.access())
        await client.upgrade(`/v1/sandboxes/${box.id}/commands/run`)
        const dd = `dd if=/dev/zero bs=64k count=${FLOOD_BYTES / (64 * 1024)} status=none`
        await client.say({ command: ["sh", "-c", `${dd} & setsid ${dd} & wait`] })
        await client.receive(FILE_MIB * MIB)
        // The client reads no more, so the flood waits once all buffers in between are full.
        let before = -1
        const isStill = () => {
          const was = before
          before = writtenIn(box)
          return before === was
        }
        await expect.poll(isStill, { interval: 200 }).toBe(true)
        expect(before).toBeLessThan(FLOOD_BYTES / 2)
        expect(peakMb(supervisorOf(box.id))).toBeLessThan(SUPERVISOR_MB)
        expect(memory.grownMb()).toBeLessThan(SERVER_GROWTH_MB)
        client.cut()
        await expect.poll(traces).toEqual(none)
      }, 120_000)

      it(`carries ${FILE_MIB} MiB in and ${FILE_MIB} MiB out in less than ${SERVER_GROWTH_MB} MB more memory`, async () => {
        const { server } = stage()
        const box = await freshBox(server, "large")
        const memory = watchMemory(server.pid())
        await carry(box, FILE_MIB)
        for (const pid of [supervisorOf(box.id), filesWorkerOf(box.id)])
          expect(peakMb(pid)).toBeLessThan(SUPERVISOR_MB)
        expect(memory.grownMb()).toBeLessThan(SERVER_GROWTH_MB)
      }, 120_000)
    })
  })
}

/** Makes a sandbox with a fresh supervisor, as each case is to stay within its limit by itself. */
const freshBox = async ({ client }: Stage["server"], slug: string): Promise<Sandbox> => {
  const workspace = { slug: Slug.parse(slug), network: { kind: "none" as const } }
  const box = await client().sandboxes.create({ workspace })
  onTestFinished(() => box.remove())
  await box.ready()
  return box
}

/** The bytes that the floods of a sandbox have written. */
const writtenIn = (box: Sandbox): number =>
  processesOf(box.id)
    .filter(({ command }) => command.startsWith("dd "))
    .map(({ pid }) => Number(/wchar: (\d+)/.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]))
    .reduce((sum, bytes) => sum + bytes, 0)

/** Writes a file, and reads it. */
const carry = async (box: Sandbox, mib: number): Promise<void> => {
  await box.files.write("large", pieces(mib))
  let bytes = 0
  for await (const chunk of await box.files.readStream("large")) bytes += chunk.length
  expect(bytes).toBe(mib * MIB)
  await box.files.remove("large")
}

const pieces = (count: number): ReadableStream<Uint8Array> => {
  const piece = new Uint8Array(MIB).fill(0x62)
  let sent = 0
  return new ReadableStream({
    pull: (controller) => {
      if (sent++ < count) controller.enqueue(piece)
      else controller.close()
    },
  })
}

/** Looks until two looks find the same, and returns that: earlier connections end a moment after their clients. */
const settled = async <Found>(look: () => Found): Promise<Found> => {
  let found = look()
  const isSettled = () => {
    const was = found
    found = look()
    return isDeepStrictEqual(found, was)
  }
  await expect.poll(isSettled, { interval: 200 }).toBe(true)
  return found
}
