import { expect } from "vitest"
import type { openServer } from "../sandboxes/server.ts"

/** Covers the start of an engine, the making of a toolbox, and boots beside other tests. */
export const STAGE_DEADLINE_MS = 180_000

export type Server = Awaited<ReturnType<typeof openServer>>

/** A journey that a backend's suite adds as a test. */
export interface Case {
  readonly title: string
  readonly work: () => Promise<void>
}

/** The commands of a person, on the server that the tests of a backend share. */
export const commandsOn = (server: () => Server) => {
  const berth = async (...args: readonly string[]) => {
    const { stdout, stderr, status } = await server().berth(args)
    return { stdout: stdout.toString(), stderr, status }
  }
  const done = async (...args: readonly string[]) => {
    const told = await berth(...args)
    expect(told, `berth ${args.join(" ")}`).toMatchObject({ status: 0 })
    return told
  }
  const inside = async (name: string, ...command: readonly string[]) =>
    (await done("exec", name, "--", ...command)).stdout.trim()
  return { berth, done, inside }
}
