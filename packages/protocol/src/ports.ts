/**
 * TCP ports in a sandbox.
 *
 * - `GET /ports` → `PortList`: the ports that something listens on.
 * - WebSocket `/ports/watch`: first `ports`, with all ports, then `opened` and `closed` as they come and go, within
 *   a tenth of a second. All are `PortMessage`s in text frames; the client sends nothing.
 * - WebSocket `/ports/{port}/connect`: one TCP connection to that port of the sandbox's loopback, 127.0.0.1 or else
 *   ::1, or else of another of its addresses that something listens on. It is refused with `ports.refused` when
 *   nothing accepts it. Binary frames are bytes, both ways. A text frame is a `PortControl`: `end` says that its
 *   sender sends no more, while it still reads. A client that closes with code 1000 has sent everything; any other
 *   end resets the connection.
 */
import { z } from "zod"

export const PortNumber = z.int().min(1).max(65_535)
export type PortNumber = z.infer<typeof PortNumber>

export const Port = z.object({
  port: PortNumber,
  /** The addresses that the port is bound to: `127.0.0.1`, `0.0.0.0`, `::`, … */
  addresses: z.array(z.string()).min(1),
  /** The process that listens; null where it cannot be found, or not in time. */
  process: z.object({ pid: z.int(), name: z.string() }).nullable(),
})
export type Port = z.infer<typeof Port>

export const PortList = z.object({
  /** The ports, by their numbers. */
  ports: z.array(Port),
  /** Whether there are more than are listed. */
  isCut: z.boolean(),
})
export type PortList = z.infer<typeof PortList>

export const PortMessage = z.discriminatedUnion("type", [
  z.object({ type: z.literal("ports"), ...PortList.shape }),
  z.object({ type: z.literal("opened"), ...Port.shape }),
  z.object({ type: z.literal("closed"), port: PortNumber }),
])
export type PortMessage = z.infer<typeof PortMessage>

export const PortControl = z.strictObject({ type: z.literal("end") })
export type PortControl = z.infer<typeof PortControl>
