import type { Socket } from "node:net"

/** A connection, and the token that the supervisor asks for. */
export interface Dialed {
  readonly socket: Socket
  readonly token: string
}

/** A connection that is made before it is known whether it is needed. Nothing is sent over it until it is taken. */
export interface DialAhead {
  /** Takes the connection, once: undefined where it was taken or dropped, or could not be made. The caller ends it. */
  take(): Promise<Dialed | undefined>
  /** Ends the connection unless it was taken. May be called twice. */
  drop(): void
}

export const dialAhead = (dial: () => Promise<Dialed>): DialAhead => {
  // A failure is dropped: the caller that takes the connection dials again, and then gets the error.
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
