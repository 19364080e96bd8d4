import { existsSync } from "node:fs"
import { readFile, writeFile } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"

/** The kernel shows the network namespace of the reader, whatever is mounted where. */
const NET = "/proc/sys/net"

export const deviceExists = (device: string): boolean => existsSync(`${NET}/ipv4/conf/${device}`)

/** Turns the host into a router. It stays one: other programs may have come to rely on it. */
export const enableForwarding = async (): Promise<void> => {
  const path = `${NET}/ipv4/ip_forward`
  if ((await readFile(path, "utf8")).trim() === "1") return
  await write(path, "1")
}

/** Forwards packets that come from the device, and turns IPv6 off on it. */
export const closeDevice = async (device: string): Promise<void> => {
  await write(`${NET}/ipv4/conf/${device}/forwarding`, "1")
  // The file is absent where the kernel has no IPv6.
  const ipv6 = `${NET}/ipv6/conf/${device}/disable_ipv6`
  if (existsSync(ipv6)) await write(ipv6, "1")
}

/** Lets packets from this device reach 127.0.0.0/8, which the rules open for the name server alone. */
export const routeLoopback = (device: string, allowed: boolean): Promise<void> =>
  write(`${NET}/ipv4/conf/${device}/route_localnet`, allowed ? "1" : "0")

const write = async (path: string, value: string): Promise<void> => {
  try {
    await writeFile(path, value)
  } catch (cause) {
    throw new BerthError("backend.unavailable", `the kernel refuses ${value} for ${path}`, {
      details: { path, value, engineSaid: cause instanceof Error ? cause.message : String(cause) },
      cause,
    })
  }
}
