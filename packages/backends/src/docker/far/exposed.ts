import { timeoutSignal } from "@berth/host/timeout-signal"
import { BerthError } from "@berth/protocol/errors"
import type { InstallationId } from "@berth/protocol/ids"
import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import { z } from "zod"
import { describeAddress, type EngineAddress } from "../engine/address.ts"
import { removeContainer } from "../engine/containers.ts"
import type { Engine } from "../engine/engine.ts"
import { INSTALLATION_LABEL } from "../engine/names.ts"
import { networkNames } from "../network/names.ts"

export interface ExposureOptions {
  readonly installation: InstallationId
  readonly image: string
  /** The volume with the toolbox, whose node runs the probe. */
  readonly toolbox: string
}

/** The port that engines listen on without certificates. */
const USUAL_PORT = 2375
const REACHED = 3
/** The probe's container is removed under its own deadline, since the caller may have given up. */
const REMOVE_DEADLINE_MS = 10_000

/**
 * Refuses an engine whose own port can be reached from its sandboxes. Such a port asks for no certificate, so that
 * anyone who reaches it is root on its machine, and no rules can be set there from here. A container on the sandboxes'
 * network tries it.
 */
export const requireUnexposed = async (
  engine: Engine,
  options: ExposureOptions,
  signal: AbortSignal,
): Promise<void> => {
  const name = `berth-${options.installation}-reach`
  const body = containerOf(options, placesOf(engine.address))
  // A server that crashed may have left the container.
  await removeContainer(engine, name, signal)
  try {
    const path = "/containers/create"
    const made = { method: "POST", path, query: { name }, body } as const
    const { Id } = await engine.read(made, z.object({ Id: z.string() }), signal)
    await engine.ask({ method: "POST", path: `/containers/${Id}/start` }, [204], signal)
    const wait = { method: "POST", path: `/containers/${Id}/wait` } as const
    const { StatusCode } = await engine.read(wait, z.object({ StatusCode: z.int() }), signal)
    if (StatusCode === REACHED) throw exposed(engine.address)
    if (StatusCode !== 0) throw untried(engine.address, StatusCode)
  } finally {
    await removeContainer(engine, name, timeoutSignal(REMOVE_DEADLINE_MS))
  }
}

const placesOf = (address: EngineAddress) => {
  if ("socketPath" in address) return { hosts: [], ports: [USUAL_PORT] }
  return { hosts: [address.host], ports: [...new Set([address.port, USUAL_PORT])] }
}

const containerOf = (
  { installation, image, toolbox }: ExposureOptions,
  places: ReturnType<typeof placesOf>,
) => ({
  Image: image,
  Labels: { [INSTALLATION_LABEL]: installation },
  Entrypoint: [`${TOOLBOX_TARGET}/bin/node`, "-e", KNOCK, JSON.stringify(places)],
  Healthcheck: { Test: ["NONE"] },
  HostConfig: {
    NetworkMode: networkNames(installation).network,
    Mounts: [{ Type: "volume", Source: toolbox, Target: TOOLBOX_TARGET, ReadOnly: true }],
    ReadonlyRootfs: true,
    CapDrop: ["ALL"],
    SecurityOpt: ["no-new-privileges:true"],
    LogConfig: { Type: "none" },
  },
})

/**
 * A program that sends a request to the given addresses and to its gateway, which is the engine's machine. Only an
 * engine names its API in the answer.
 */
const KNOCK = `
const { readFileSync } = require("node:fs")
const { get } = require("node:http")
const { hosts, ports } = JSON.parse(process.argv[1])
const routes = readFileSync("/proc/net/route", "utf8").split("\\n").map((line) => line.split("\\t"))
const gateways = routes
  .filter(([, to, via]) => to === "00000000" && via !== undefined)
  .map(([, , via]) => Buffer.from(via, "hex").reverse().join("."))
for (const host of [...hosts, ...gateways])
  for (const port of ports)
    get({ host, port, path: "/_ping", timeout: 2000 }, (answer) => {
      answer.resume()
      if (answer.headers["api-version"] !== undefined) process.exit(${REACHED})
    })
      .on("timeout", function () { this.destroy() })
      .on("error", () => {})
`

const exposed = (address: EngineAddress) =>
  new BerthError("backend.engine_exposed", "the engine's own port can be reached from sandboxes", {
    details: { engine: describeAddress(address) },
  })

const untried = (address: EngineAddress, status: number) =>
  new BerthError("backend.engine_failed", "nobody could try whether sandboxes reach the engine", {
    details: { engine: describeAddress(address), status },
  })
