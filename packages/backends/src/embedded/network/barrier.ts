import type { Reservation } from "./reservations.ts"
import { demand } from "./tool.ts"

/**
 * The bit that the fence sets in the mark of each packet that it has let through. Only packets from sandboxes ever have
 * it, and other bits stay as they are, so the host's own marks go on to work.
 */
export const PASSED_MARK = 0x1000_0000

/**
 * The barrier keeps a sandbox cut off while the fence is away: the kernel's policies (those of IPsec) drop every packet
 * from its address that lacks the fence's mark, whether it is for the host or would be forwarded. A flush of the
 * firewall does not touch these policies, and they need no server. Gives lines for `ip -batch`.
 */
export const barrierLines = ({ address }: Pick<Reservation, "address">): string[] =>
  ["in", "fwd"].map(
    (direction) =>
      `xfrm policy update src ${address}/32 dst 0.0.0.0/0 dir ${direction} mark 0 mask ${PASSED_MARK} action block priority 1`,
  )

/** Restores missing barriers of these reservations. */
export const ensureBarriers = async (reservations: readonly Reservation[]): Promise<void> => {
  if (reservations.length > 0) await batch(reservations.flatMap(barrierLines))
}

/**
 * Removes the policies of an address, if it has any. They are found by the source alone, since ip does not delete by a
 * mark of zero.
 */
export const dropBarrier = ({ address }: Reservation, signal: AbortSignal): Promise<void> =>
  batch([`xfrm policy deleteall src ${address}/32`], signal)

const batch = async (
  lines: readonly string[],
  signal = new AbortController().signal,
): Promise<void> => {
  await demand(["ip", "-batch", "-"], { signal, input: `${lines.join("\n")}\n` })
}
