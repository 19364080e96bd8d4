import type { Event } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { onTestFinished } from "vitest"
import { type Bridge, type BridgeOptions, type BridgeState, openBridge } from "../bridge.ts"

export const TOKEN = "a-token-for-tests-0123456789abcdefghijkl"

/** A bridge whose states and events can be waited for; closed after the test. */
export const watchBridge = (
  options: Pick<BridgeOptions, "address"> & Partial<BridgeOptions>,
): WatchedBridge => {
  const states: BridgeState[] = []
  const events: Event[] = []
  const wakes: (() => void)[] = []
  const wake = () => {
    for (const resolve of wakes.splice(0)) resolve()
  }
  const stop = new AbortController()
  const bridge = openBridge(
    {
      token: TOKEN,
      sandbox: newId.sandbox(),
      lastSeen: 0,
      ...options,
      onEvents: async (batch) => {
        await options.onEvents?.(batch)
        events.push(...batch)
        wake()
      },
      onState: (state) => {
        options.onState?.(state)
        states.push(state)
        wake()
      },
    },
    stop.signal,
  )
  const close = async () => {
    stop.abort()
    await bridge.closed
  }
  onTestFinished(close)
  return {
    bridge,
    states,
    events,
    close,
    until: async (isSo) => {
      for (;;) {
        const found = isSo()
        if (found) return found
        await new Promise<void>((resolve) => wakes.push(resolve))
      }
    },
  }
}

export interface WatchedBridge {
  readonly bridge: Bridge
  readonly states: BridgeState[]
  readonly events: Event[]
  readonly close: () => Promise<void>
  /** Checks again at every state and every batch. */
  readonly until: <T>(isSo: () => T) => Promise<NonNullable<T>>
}

/** The first reason why the bridge went down. */
export const firstFailure = async ({ states, until }: WatchedBridge) =>
  await until(() => states.flatMap((state) => (state.kind === "down" ? [state.reason] : []))[0])
