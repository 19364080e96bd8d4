import type { InstallationId } from "@berth/protocol/ids"
import type { SystemIdentity } from "@berth/protocol/sandbox"
import type { Backend } from "../../backend.ts"
import type { Given, GivenNetwork } from "../attempt.ts"

/** A backend to test: a server of its own, in a network that the harness plays. */
export interface IsolationHarness {
  readonly backend: Pick<
    Backend,
    "create" | "start" | "stop" | "remove" | "inspect" | "logs" | "describe"
  >
  readonly installation: InstallationId
  /** A system with /bin/sh, coreutils and perl. */
  readonly system: SystemIdentity
  /** The server's data directory, and sockets that answer every connection with `… hears …`. */
  readonly directory: string
  readonly serverSockets: Given["serverSockets"]
  readonly network: IsolationNetwork
  /** Everything that this installation has on the host, counted by kind: processes, mounts, cgroups, … */
  census(): Promise<Record<string, number>>
  /** The number of the host's processes with this argument. */
  processesWith(argument: string): Promise<number>
  close(): Promise<void>
}

/** Hosts on this machine, each with a listener that answers `… hears …` and remembers packets. */
export interface IsolationNetwork extends Omit<GivenNetwork, "neighbour"> {
  /** The answer to a connection from the host. */
  dial(address: string, port: number): Promise<string>
  /** The number of connections that the host's kernel tracks. */
  tracked(): Promise<number>
  /** Waits for this packet, and returns all packets that any listener has got by then. */
  packetsUntil(last: string): Promise<readonly string[]>
  /** Runs the work while the rules between sandboxes and the rest are away. */
  withoutFence<Result>(work: () => Promise<Result>): Promise<Result>
}

export interface IsolationOptions {
  /** A secret in the environment of the server. */
  readonly serverSecret: string
  /** The size of the disk that the server's data lies on. Default: the machine's own. */
  readonly diskBytes?: number
}
