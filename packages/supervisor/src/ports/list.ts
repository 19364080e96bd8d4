import type { Port } from "@berth/protocol/ports"
import type { Listening } from "./listening.ts"
import type { Owner } from "./owners.ts"

/** The open ports, one entry per number, sorted: a client that connects names only the number. */
export const portsOf = (
  sockets: readonly Listening[],
  owners: ReadonlyMap<string, Owner>,
): Port[] =>
  [...Map.groupBy(sockets, ({ port }) => port)]
    .map(([port, same]) => ({
      port,
      addresses: [...new Set(same.map(({ address }) => address))],
      process: same.map(({ inode }) => owners.get(inode)).find(Boolean) ?? null,
    }))
    .toSorted((a, b) => a.port - b.port)
