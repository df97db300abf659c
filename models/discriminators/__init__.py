"""Judges of pairs: does the second text follow from the first?"""
