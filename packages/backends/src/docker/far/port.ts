import { lookup } from "node:dns/promises"
import { SUPERVISOR_PORT_VARIABLE } from "@berth/protocol/shared-directory"
import { z } from "zod"
import type { EngineAddress } from "../engine/address.ts"
import { type Engine, parseAnswer } from "../engine/engine.ts"
import type { PortAddress } from "./doors.ts"

/** The port that the supervisor serves on inside. The engine chooses the one outside. */
const PORT = 7_767
const KEY = `${PORT}/tcp`
const LOOPBACK = "127.0.0.1"

/** The part of a container's description that publishing the port adds to. */
export interface Published {
  readonly Env: readonly string[]
  readonly HostConfig: object
}

/** The address at which ports are published: the one by which the engine itself is reached. */
export const reachedAt = async (address: EngineAddress): Promise<string> => {
  // The engine of a virtual machine has a socket here, and its loopback is this host's, too.
  if ("socketPath" in address) return LOOPBACK
  const found = await lookup(address.host, { family: 4 })
  return found.address.startsWith("127.") ? LOOPBACK : found.address
}

/** Publishes the supervisor's port on that address alone. */
export const publishing = <Body extends Published>(body: Body, host: string): Body => ({
  ...body,
  Env: [...body.Env, `${SUPERVISOR_PORT_VARIABLE}=${PORT}`],
  ExposedPorts: { [KEY]: {} },
  HostConfig: { ...body.HostConfig, PortBindings: { [KEY]: [{ HostIp: host, HostPort: "" }] } },
})

const PortsAnswer = z.object({
  State: z.object({ Running: z.boolean() }),
  NetworkSettings: z.object({
    Ports: z.record(z.string(), z.array(z.object({ HostPort: z.string() })).nullish()).nullish(),
  }),
})

/** The address of a container's published port; undefined if the container does not run. */
export const publishedAt = async (
  engine: Engine,
  engineId: string,
  host: string,
  signal: AbortSignal,
): Promise<PortAddress | undefined> => {
  const request = { method: "GET", path: `/containers/${engineId}/json` } as const
  const answer = await engine.ask(request, [200, 404], signal)
  if (answer.status === 404) return undefined
  const { State, NetworkSettings } = parseAnswer(request, answer, PortsAnswer)
  const port = Number(NetworkSettings.Ports?.[KEY]?.[0]?.HostPort)
  return State.Running && port > 0 ? { host, port } : undefined
}
