/** Runs one piece of work at a time for each key, in the order of asking; keys do not wait for each other. */
export type Serially = <Result>(key: string, work: () => Promise<Result>) => Promise<Result>

export const serialByKey = (): Serially => {
  const tails = new Map<string, Promise<unknown>>()
  return (key, work) => {
    const turn = (tails.get(key) ?? Promise.resolve()).then(work, work)
    const tail = turn.then(ignore, ignore).then(() => {
      if (tails.get(key) === tail) tails.delete(key)
    })
    tails.set(key, tail)
    return turn
  }
}

const ignore = () => {}
