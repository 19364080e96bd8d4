import type { Socket } from "node:net"

/** A connection, and the token that the other side asks for. */
export interface Dialed {
  readonly socket: Socket
  readonly token: string
}

/** A connection that is made before it is known whether it is needed. Nothing is said over it until it is taken. */
export interface DialAhead {
  /** Once: undefined where it was taken or dropped, or could not be made. Whoever takes it ends it. */
  take(): Promise<Dialed | undefined>
  /** Ends it unless it was taken. Twice is as good as once. */
  drop(): void
}

export const dialAhead = (dial: () => Promise<Dialed>): DialAhead => {
  // Whoever takes it dials again, and hears why that fails.
  let dialing: Promise<Dialed | undefined> | undefined = dial().catch(() => undefined)
  const take = async () => {
    const taken = dialing
    dialing = undefined
    return await taken
  }
  return {
    take,
    drop: () => void take().then((dialed) => dialed?.socket.destroy()),
  }
}
