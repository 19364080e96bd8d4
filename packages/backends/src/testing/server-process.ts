import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { PLAIN_ENV } from "@berth/host/child"
import type { Namespace } from "../embedded/network/testing/namespace.ts"
import type { ServerCalls } from "./serve.ts"

const { NODE_COMPILE_CACHE: COMPILE_CACHE } = process.env

/** A process that serves a backend, seen from the test. */
export interface Server {
  call<Name extends keyof ServerCalls>(
    name: Name,
    ...args: Parameters<ServerCalls[Name]>
  ): Promise<Awaited<ReturnType<ServerCalls[Name]>>>
  end(): Promise<void>
}

export interface ServerOptions {
  /** The file that calls `serve`. */
  readonly file: string
  readonly environment: Readonly<Record<string, string>>
  /** With a size, the server's data lies on a disk of that size which only the server sees. */
  readonly diskBytes?: number | undefined
}

/** Starts a server in a network namespace. */
export const startServer = async (
  { pid }: Namespace,
  { file, environment, diskBytes }: ServerOptions,
): Promise<Server> => {
  const place = diskBytes === undefined ? undefined : await makeDisk(diskBytes)
  const program = [process.execPath, "--conditions=source", file]
  const child = spawn(
    "nsenter",
    [`--net=/proc/${pid}/ns/net`, ...(place?.mounting ?? []), ...program],
    {
      stdio: ["pipe", "pipe", "inherit"],
      env: {
        ...PLAIN_ENV,
        ...environment,
        ...place?.environment,
        ...(COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE: COMPILE_CACHE }),
      },
    },
  )
  const gone = once(child, "exit")
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  const ready = Promise.withResolvers<void>()
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result, error } = JSON.parse(line)
    if (id === undefined) return ready.resolve()
    if (error === undefined) waiting.get(id)?.resolve(result)
    else waiting.get(id)?.reject(Object.assign(new Error(error.message), error))
    waiting.delete(id)
  })
  void gone.then(() => {
    const ended = new Error("the server ended")
    ready.reject(ended)
    for (const { reject } of waiting.values()) reject(ended)
  })
  const end = async () => {
    child.stdin.end()
    await gone
    await place?.remove()
  }
  await ready.promise.catch(async (failure: unknown) => {
    await end()
    throw failure
  })
  let calls = 0
  return {
    call(name, ...args) {
      const id = ++calls
      const reply = Promise.withResolvers<unknown>()
      waiting.set(id, reply)
      child.stdin.write(`${JSON.stringify({ id, call: name, args })}\n`)
      return reply.promise as Promise<never>
    },
    end,
  }
}

/** The variable that names the disk for the server's data, if it has one of its own. */
export const DATA_DISK = "DATA_DISK"

/** Makes a disk. It is mounted in a namespace of the program's own, so that nothing of it can stay behind. */
const makeDisk = async (bytes: number) => {
  const directory = await mkdtemp(join(tmpdir(), "berth-disk-"))
  const mount = `mount -t tmpfs -o size=${bytes},mode=0711 disk ${directory} && exec "$@"`
  return {
    mounting: ["unshare", "--mount", "--propagation=slave", "sh", "-c", mount, "sh"],
    environment: { [DATA_DISK]: directory },
    remove: () => rm(directory, { recursive: true, force: true }),
  }
}
