import { readlink } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import { barrierLines } from "./barrier.ts"
import { toAddress } from "./ipv4.ts"
import type { Pool } from "./pool.ts"
import type { Reservation } from "./reservations.ts"
import { describeRoute, readRoutes } from "./routes.ts"
import { settle } from "./settle.ts"
import { closeDevice, deviceExists, routeLoopback } from "./sysctl.ts"
import { ask, demand, refusal } from "./tool.ts"

interface VethOptions {
  readonly reservation: Reservation
  readonly pool: Pool
  /** The sandbox's first process, whose network namespace gets the other end. */
  readonly pid: number
  readonly loopbackResolver: boolean
  readonly signal: AbortSignal
}

/** Makes the veth, a pair of devices, and sets up both ends. Replaces those of an earlier attempt. */
export const makeVeth = async (options: VethOptions): Promise<void> => {
  const { reservation, pid, signal } = options
  await refuseOwnNamespace(pid)
  if (deviceExists(reservation.device)) await removeVeth(reservation.device, signal)
  await setUpHost(options)
  await settle([
    closeDevice(reservation.device),
    routeLoopback(reservation.device, options.loopbackResolver),
    setUpInside(options),
  ])
}

/** Removes a veth. The other end goes with it, and so do their addresses and routes. */
export const removeVeth = async (device: string, signal: AbortSignal): Promise<void> => {
  if (!deviceExists(device)) return
  const command = ["ip", "link", "delete", device] as const
  const outcome = await ask(command, { signal })
  // The device goes by itself if the sandbox's namespace ends at the same time.
  if (outcome.status !== 0 && deviceExists(device)) throw refusal(command, outcome)
}

/** The ends of every veth have the same addresses: only the other end ever sees them. */
const HOST_MAC = "02:00:00:00:00:01"
const SANDBOX_MAC = "02:00:00:00:00:02"

/**
 * Sets up the host's end. `addrgenmode none` keeps IPv6 addresses off the device. Without ARP, nobody inside can put
 * entries into the kernel's neighbour table, which all namespaces of the host share; the one entry that is needed is
 * permanent.
 */
const setUpHost = async ({ reservation, pool, pid, signal }: VethOptions): Promise<void> => {
  const { device, address, sandbox } = reservation
  const command = ["ip", "-batch", "-"] as const
  const outcome = await ask(command, {
    signal,
    input: lines(
      `link add ${device} address ${HOST_MAC} type veth peer name eth0 address ${SANDBOX_MAC} netns ${pid}`,
      `link set ${device} alias "berth ${sandbox}" addrgenmode none arp off up`,
      `address add ${pool.gateway}/32 dev ${device}`,
      `route add ${address}/32 dev ${device} src ${pool.gateway}`,
      `neighbour replace ${address} lladdr ${SANDBOX_MAC} nud permanent dev ${device}`,
      ...barrierLines(reservation),
    ),
  })
  if (outcome.status === 0) return
  await refuseTakenAddress(reservation)
  throw refusal(command, outcome)
}

const setUpInside = async ({ reservation, pool, pid, signal }: VethOptions): Promise<void> => {
  await demand(["nsenter", `--net=/proc/${pid}/ns/net`, "ip", "-batch", "-"], {
    signal,
    input: lines(
      "link set lo up",
      "link set eth0 addrgenmode none arp off up",
      `address add ${reservation.address}/32 dev eth0`,
      `neighbour replace ${pool.gateway} lladdr ${HOST_MAC} nud permanent dev eth0`,
      `route add ${pool.gateway}/32 dev eth0`,
      `route add default via ${pool.gateway} dev eth0`,
    ),
  })
}

const lines = (...commands: string[]) => `${commands.join("\n")}\n`

/** Refuses to connect the server's own namespace: the sandbox's end would take over the host's default route. */
const refuseOwnNamespace = async (pid: number): Promise<void> => {
  const namespaces = [`/proc/${pid}/ns/net`, "/proc/self/ns/net"].map((path) => readlink(path))
  const [theirs, ours] = await Promise.all(namespaces).catch((cause: unknown) => {
    throw new BerthError("backend.engine_failed", `process ${pid} has ended`, {
      details: { pid },
      cause,
    })
  })
  if (theirs !== ours) return
  throw new BerthError("backend.engine_failed", `process ${pid} has no network of its own`, {
    details: { pid },
  })
}

/** Refuses an address that another installation on this host has taken between the reservation and the veth. */
const refuseTakenAddress = async ({ address, device }: Reservation): Promise<void> => {
  const taken = (await readRoutes()).find(
    (route) =>
      route.bits === 32 && route.device !== device && toAddress(route.span.first) === address,
  )
  if (taken === undefined) return
  const route = describeRoute(taken)
  throw new BerthError("backend.network_conflict", `another device has the address: ${route}`, {
    details: { address, route },
  })
}
