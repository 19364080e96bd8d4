import type { BootTrace } from "@berth/protocol/boot"

/** The exit statuses. A build that was cut short never looks like one that is done. */
export const EXIT = { ok: 0, failed: 1, stoppedWhileBooting: 128 + 15 } as const

/** The exit status. A sandbox that was ready has succeeded, even if an optional step did not end. */
export const statusOf = ({
  mode,
  outcome,
  readyAtMs,
}: Pick<BootTrace, "mode" | "outcome" | "readyAtMs">): number => {
  if (outcome === "succeeded") return EXIT.ok
  if (outcome !== "cancelled") return EXIT.failed
  return readyAtMs !== null && mode !== "build" ? EXIT.ok : EXIT.stoppedWhileBooting
}

/**
 * Whether the sandbox keeps serving clients after its boot: when it is ready, and when its boot failed and people may
 * look into it. Without a server that can connect, nobody could.
 */
export const staysUp = async (
  { mode, outcome }: Pick<BootTrace, "mode" | "outcome">,
  isServed: Promise<boolean>,
): Promise<boolean> =>
  mode !== "build" && (outcome === "succeeded" || (outcome === "failed" && (await isServed)))
